"""Six threads that keep, drop and replace bytes objects: above 512 bytes these come from malloc."""

import random
import threading
import time

THREADS, KEPT = 6, 3000


def churn(number):
    rng, kept = random.Random(number), []
    while True:
        kept.append(bytes(rng.choice((600, 900, 2000, 5000, 20000))))
        if len(kept) > KEPT:
            del kept[rng.randrange(len(kept))]
            if rng.random() < 0.001:
                del kept[::2]
            ready[number].set()
            time.sleep(0.0005)


ready = [threading.Event() for _ in range(THREADS)]
for number in range(THREADS):
    threading.Thread(target=churn, args=(number,), daemon=True, name=f"churn-{number}").start()
for event in ready:
    event.wait()
print("ready", flush=True)
time.sleep(3600)
