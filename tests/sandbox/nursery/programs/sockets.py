import array
import fcntl
import select
import socket
import termios
import threading

for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, "socket")):
    with socket.socket(family) as listener, socket.socket(family) as client:
        listener.bind(address)
        listener.listen()
        answer = threading.Thread(target=lambda: listener.accept()[0].sendall(b"hello"))
        answer.start()
        client.connect(listener.getsockname())
        answer.join()
        waiting = array.array("i", [0])
        select.select([client], [], [])
        fcntl.ioctl(client, termios.FIONREAD, waiting)
        assert waiting[0] == 5
        assert client.recv(5) == b"hello"

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
    other.bind(("127.0.0.1", 0))
    one.sendto(b"datagram", other.getsockname())
    assert other.recvfrom(100)[0] == b"datagram"

assert socket.getaddrinfo("localhost", 80)
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [1])
assert socket.recv_fds(other, 1, 1)[0] == b"x"
