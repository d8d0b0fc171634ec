# Strings in a hash, and where Ruby says that each has its text.
require "fiddle"
$stdout.sync = true
kept = (1..5000).to_h { |number| [number, "x" * (300 + number * 7 % 3000)] }
puts kept.values.map { |text| Fiddle::Pointer[text].to_i }.join(" ")
sleep 3600
