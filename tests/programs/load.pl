# Strings in hashes, of which most are dropped again.
use strict;
use warnings;

my (%kept, $round);
$| = 1;
srand 1;
while (1) {
    $kept{int rand 40000} = "x" x (20 + int rand 3000);
    delete $kept{int rand 40000} for 1 .. 2;
    if (++$round == 60000) {
        delete @kept{grep { rand() < 0.7 } keys %kept};
        print "ready\n";
        sleep 3600 if $ENV{STANDS_STILL};
    }
    select undef, undef, undef, 0.001 if $round > 60000;
}
