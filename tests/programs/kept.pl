# Strings in a hash, and where perl says that each has its text.
use strict;
use warnings;

$| = 1;
my %kept = map { ("key-of-some-length-$_" => "x" x (300 + $_ * 7 % 3000)) } 1 .. 5000;
my @kept = map { [1 .. 50] } 1 .. 500;
print join(" ", map { unpack "J", pack "p", $_ } values %kept), "\n";
sleep 3600;
