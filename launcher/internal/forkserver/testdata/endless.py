import signal

while True:
    signal.pause()
