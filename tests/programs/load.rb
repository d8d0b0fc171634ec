# Strings in a hash, of which most are dropped again: the objects are Ruby's, the text of longer ones is malloc's.
$stdout.sync = true
kept, random, round = {}, Random.new(1), 0
loop do
  kept[random.rand(40000)] = "x" * (20 + random.rand(3000))
  2.times { kept.delete(random.rand(40000)) }
  round += 1
  if round == 60000
    kept.delete_if { random.rand < 0.7 }
    puts "ready"
    sleep 3600 if ENV["STANDS_STILL"]
  end
  sleep 0.001 if round > 60000
end
