"""Import this before numba compiles anything: it starts numba's threads without changing the number of torch's."""

from __future__ import annotations

import torch
from numba import set_num_threads

_before = torch.get_num_threads()
set_num_threads(1)  # starts them, for which numba sets OpenMP's number, which is torch's as well
torch.set_num_threads(_before)
