<?php
// Strings in an array, of which most are dropped again: all of them Zend's.
$kept = [];
mt_srand(1);
for ($round = 1; ; $round++) {
    $kept[mt_rand(0, 40000)] = str_repeat("x", mt_rand(20, 3000));
    unset($kept[mt_rand(0, 40000)]);
    if ($round == 60000) {
        echo "ready\n";
        if (getenv("STANDS_STILL")) {
            sleep(3600);
        }
    }
    if ($round > 60000) {
        usleep(1000);
    }
}
