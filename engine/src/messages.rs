//! Questions and answers of many parts, as the C interface has them: numbers of 64 bits, and text. A string is its
//! length among the numbers and its bytes in the text, a list its length and its items, what there is none of NONE.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use crate::failure::{push, Failure, Result};
use crate::{gives, Given, Table};

pub(crate) const NONE: i64 = i64::MIN;

/// What is left of a question.
pub(crate) struct Asked<'a> {
    numbers: &'a [i64],
    text: &'a [u8],
}

/// What a question can have as a part.
pub(crate) trait Askable<'a>: Sized {
    fn read(asked: &mut Asked<'a>) -> Result<Self>;
}

impl<'a> Asked<'a> {
    /// SAFETY: as of `Table::of`.
    pub(crate) unsafe fn of(numbers: &Table, text: &Table) -> Asked<'a> {
        Asked { numbers: numbers.of(), text: text.of() }
    }

    pub(crate) fn next<T: Askable<'a>>(&mut self) -> Result<T> {
        T::read(self)
    }

    /// A list, each as `one` reads it.
    pub(crate) fn list<T>(&mut self, mut one: impl FnMut(&mut Asked<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        for _ in 0..self.next::<usize>()? {
            push(&mut found, one(self)?)?;
        }
        Ok(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

impl Askable<'_> for i64 {
    fn read(asked: &mut Asked) -> Result<Self> {
        let (first, rest) = asked.numbers.split_first().ok_or(Failure::BadInput)?;
        asked.numbers = rest;
        Ok(*first)
    }
}

/// What is made of a number.
macro_rules! asked_as_numbers {
    ($($kind:ty: $make:expr),*) => {
        $(impl Askable<'_> for $kind {
            fn read(asked: &mut Asked) -> Result<Self> {
                $make(asked.next::<i64>()?)
            }
        })*
    };
}

fn checked<T: TryFrom<i64>>(number: i64) -> Result<T> {
    T::try_from(number).map_err(|_| Failure::BadInput)
}

// an address may have the highest bit
asked_as_numbers!(u64: |number| Ok(number as u64), bool: |number| Ok(number != 0));
asked_as_numbers!(i32: checked, u32: checked, usize: checked);

impl<'a> Askable<'a> for &'a [u8] {
    fn read(asked: &mut Asked<'a>) -> Result<Self> {
        let length = asked.next::<usize>()?;
        if length > asked.text.len() {
            return Err(Failure::BadInput);
        }
        let (bytes, rest) = asked.text.split_at(length);
        asked.text = rest;
        Ok(bytes)
    }
}

impl<'a> Askable<'a> for &'a str {
    fn read(asked: &mut Asked<'a>) -> Result<Self> {
        std::str::from_utf8(asked.next()?).map_err(|_| Failure::BadInput)
    }
}

impl Askable<'_> for PathBuf {
    fn read(asked: &mut Asked) -> Result<Self> {
        Ok(PathBuf::from(OsStr::from_bytes(asked.next()?)))
    }
}

impl<'a, T: Askable<'a>> Askable<'a> for Option<T> {
    fn read(asked: &mut Asked<'a>) -> Result<Self> {
        if asked.numbers.first() == Some(&NONE) {
            return asked.next::<i64>().map(|_| None);
        }
        asked.next().map(Some)
    }
}

impl<'a, T: Askable<'a>> Askable<'a> for Vec<T> {
    fn read(asked: &mut Asked<'a>) -> Result<Self> {
        asked.list(Asked::next)
    }
}

#[derive(Default)]
pub(crate) struct Answer {
    numbers: Vec<i64>,
    text: Vec<u8>,
}

/// What an answer can have as a part.
pub(crate) trait Tellable {
    fn tell(&self, answer: &mut Answer) -> Result<()>;
}

impl Answer {
    pub(crate) fn add(&mut self, part: impl Tellable) -> Result<()> {
        part.tell(self)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.text.try_reserve(bytes.len())?;
        self.text.extend_from_slice(bytes);
        self.add(bytes.len())
    }

    /// A list, each as `one` tells it.
    pub(crate) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut one: impl FnMut(&mut Answer, T) -> Result<()>,
    ) -> Result<()> {
        self.add(items.len())?;
        items.into_iter().try_for_each(|item| one(self, item))
    }
}

impl Tellable for i64 {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        push(&mut answer.numbers, *self)
    }
}

/// Numbers, and enums that are told by theirs.
macro_rules! told_as_numbers {
    ($($kind:ty),*) => {
        $(impl crate::messages::Tellable for $kind {
            fn tell(&self, answer: &mut crate::messages::Answer) -> crate::failure::Result<()> {
                answer.add(*self as i64)
            }
        })*
    };
}
pub(crate) use told_as_numbers;

told_as_numbers!(bool, i32, u32, u64, usize);

impl Tellable for i128 {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add(((*self >> 64) as i64, *self as i64))
    }
}

impl Tellable for str {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.bytes(self.as_bytes())
    }
}

impl Tellable for String {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.add(&**self)
    }
}

impl<T: Tellable + ?Sized> Tellable for &T {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        (**self).tell(answer)
    }
}

impl<T: Tellable + ?Sized> Tellable for Rc<T> {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        (**self).tell(answer)
    }
}

impl<T: Tellable> Tellable for Option<T> {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        match self {
            Some(part) => part.tell(answer),
            None => answer.add(NONE),
        }
    }
}

/// All know how many these are.
impl<T: Tellable, const N: usize> Tellable for [T; N] {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        self.iter().try_for_each(|part| part.tell(answer))
    }
}

impl<T: Tellable> Tellable for [T] {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        answer.list(self.iter(), |answer, part| part.tell(answer))
    }
}

impl<T: Tellable> Tellable for Vec<T> {
    fn tell(&self, answer: &mut Answer) -> Result<()> {
        self[..].tell(answer)
    }
}

/// Some parts, one after the other.
macro_rules! several {
    ($($part:ident)*) => {
        impl<'a, $($part: Askable<'a>),*> Askable<'a> for ($($part,)*) {
            fn read(asked: &mut Asked<'a>) -> Result<Self> {
                Ok(($(asked.next::<$part>()?,)*))
            }
        }

        #[allow(non_snake_case)]
        impl<$($part: Tellable),*> Tellable for ($($part,)*) {
            fn tell(&self, answer: &mut Answer) -> Result<()> {
                let ($($part,)*) = self;
                $($part.tell(answer)?;)*
                Ok(())
            }
        }
    };
}
several!(A B);
several!(A B C);
several!(A B C D);
several!(A B C D E);
several!(A B C D E F);
several!(A B C D E F G);
several!(A B C D E F G H);

/// SAFETY: as of the functions for C.
#[cfg_attr(feature = "broken", track_caller)]
pub(crate) unsafe fn answered(to: &mut [Given; 2], work: impl FnOnce(&mut Answer) -> Result<()>) -> i32 {
    gives(to, || {
        let mut answer = Answer::default();
        work(&mut answer)?;
        Ok([Given::of(answer.numbers), Given::of(answer.text)])
    })
}
