import queue
import threading
from concurrent.futures import ThreadPoolExecutor

found: "queue.Queue[int]" = queue.Queue()
threads = [threading.Thread(target=found.put, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(found.queue) == list(range(8))

with ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, range(-3, 1))) == [3, 2, 1, 0]
