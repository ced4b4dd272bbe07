import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory


def double(number):
    return 2 * number


def fill(name, lock, done):
    with lock:
        memory = shared_memory.SharedMemory(name)
        memory.buf[0] = 7
        memory.close()
    done.put("done")


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            assert pool.map(double, range(5)) == [0, 2, 4, 6, 8]

    context = multiprocessing.get_context("fork")
    memory = shared_memory.SharedMemory(create=True, size=10)
    done = context.Queue()
    process = context.Process(target=fill, args=(memory.name, context.Lock(), done))
    process.start()
    assert done.get() == "done"
    process.join()
    assert memory.buf[0] == 7
    memory.close()
    memory.unlink()

    with ProcessPoolExecutor(2) as executor:
        assert list(executor.map(double, range(3))) == [0, 2, 4]
