use std::collections::HashMap;
trait Shape<'a, const N: usize> { type Out; fn area(&self, of: &dyn Fn(&'a str) -> u32) -> Self::Out; }
struct Square<T>(T);
impl<'a, T: Copy + Into<f64>> Shape<'a, 7> for Square<T> {
    type Out = f64;
    fn area(&self, of: &dyn Fn(&'a str) -> u32) -> f64 { self.0.into() * of("x") as f64 }
}
fn generic<T: std::fmt::Debug, const B: bool, const C: char, const I: i32>(
    of: &mut [T; 3], by: unsafe extern "C" fn(*const u8, *mut T) -> i32
) -> usize { format!("{:?}{}{}{}{:p}", of, B, C, I, by as *const ()).len() }
unsafe extern "C" fn foreign(_: *const u8, _: *mut (u8, &'static str)) -> i32 { 1 }
fn boxed(of: Box<dyn Iterator<Item = (u8,)> + Send>) -> usize { of.count() }
mod größe { pub fn straße(of: u32) -> u32 { of.swap_bytes() } }
static CACHE: std::sync::Mutex<Option<HashMap<String, Vec<u64>>>> = std::sync::Mutex::new(None);
fn main() {
    *CACHE.lock().unwrap() = Some(HashMap::from([("a".to_string(), vec![1])]));
    println!("{}", Square(3i32).area(&|text| text.len() as u32));
    println!("{}", generic::<_, true, 'q', -4>(&mut [(1u8, "a"), (2, "b"), (3, "c")], foreign));
    println!("{}", boxed(Box::new((0..3u8).map(|each| (each,)))));
    println!("{}", größe::straße(3));
}
