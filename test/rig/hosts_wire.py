# SPDX-License-Identifier: BSD-3-Clause
"""A wire between two devices that delays frames and loses some: what tc's netem does, for kernels without it.
usage: hosts_wire.py DEVICE DEVICE DELAY_MS LOSS_PERCENT READY_FILE

Frames pass with the virtio header, so that the kernel may hand over 64 KiB at a time as between plain veth devices; a lost
frame then is up to 44 lost packets, as in netem.  Order is kept: the delay is the same for all."""

import collections
import random
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 15, 23, 3
QUEUE = 4096        # frames that may be under way in one direction, 64 MiB and more; a full queue loses frames


def listen(device):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)     # what we send on it is not read again
    s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, 32 << 20)
    s.bind((device, ETH_P_ALL))
    s.setblocking(False)
    return s


class Direction:
    def __init__(self, source, target, delay, loss):
        self.source, self.target, self.delay, self.loss = source, target, delay, loss
        self.under_way = collections.deque()

    def take(self):
        """Reads what has come; bounded, so that the other direction has its turn."""
        for _ in range(64):
            try:
                frame = self.source.recv(1 << 17)
            except BlockingIOError:
                return
            except OSError:
                return          # the device is down: frames are lost
            if len(self.under_way) < QUEUE and random.random() >= self.loss:
                self.under_way.append((time.monotonic() + self.delay, frame))

    def deliver(self):
        """Sends what is due; seconds until the next is, or None."""
        while self.under_way:
            wait = self.under_way[0][0] - time.monotonic()
            if wait > 0:
                return wait
            try:
                self.target.send(self.under_way.popleft()[1])
            except OSError:
                pass            # down or full: lost
        return None


def main():
    a, b = listen(sys.argv[1]), listen(sys.argv[2])
    delay, loss = float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100
    ways = [Direction(a, b, delay, loss), Direction(b, a, delay, loss)]
    with open(sys.argv[5], "w"):
        pass
    while True:
        waits = [w for w in (way.deliver() for way in ways) if w is not None]
        select.select([a, b], [], [], min(waits) if waits else None)    # poll(2) knows whole milliseconds only
        for way in ways:
            way.take()


main()
