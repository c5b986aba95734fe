"""Uses PyTorch's own client of file timers: that of rank 1 expires."""

import os
import time

from torch.distributed.elastic import timer

timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
with timer.expires(after=600, scope="import"):
    pass
with timer.expires(after=0 if os.environ["RANK"] == "1" else 600, scope="step"):
    time.sleep(600)
