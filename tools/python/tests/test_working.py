"""Work beside the interpreter: its lock is free, threads share the library, Ctrl-C ends it."""

import signal
import subprocess
import sys
import threading
import time

import parity
import pytest
from conftest import CASE


def test_threads_verify_at_once(dump, wrong):
    reports = {}

    def judge(name, values):
        reports[name] = parity.verify(CASE, values)

    threads = [threading.Thread(target=judge, args=given) for given in [("right", dump), ("wrong", wrong)] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reports["right"].passed and not reports["wrong"].passed


def test_the_interpreter_is_free_meanwhile(dump):
    turns, done = 0, threading.Event()
    thread = threading.Thread(target=lambda: (parity.verify(CASE, dump), done.set()))
    thread.start()
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 10


def test_an_interrupt_ends_the_work():
    before = threading.active_count()
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # In the background, it is ignored.
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            parity.verify("m3-gqa4-f32", coverage=True)  # Takes many times as long.
        timer.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert threading.active_count() == before
    assert parity.verify(CASE).passed  # The next one is not the worse for it.


def test_a_forked_process_is_told_not_to_wait():
    program = f"""
import os, parity, signal, warnings
warnings.simplefilter("ignore")
parity.verify({CASE!r})
if os.fork() == 0:
    signal.alarm(30)
    try:
        parity.verify({CASE!r})
    except parity.ParityError as error:
        os._exit(0 if "spawn" in error.help else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_import_takes_little_with_it():
    program = "import parity, sys; print(sorted({'numpy', 'torch', 'pytest', 'safetensors'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
