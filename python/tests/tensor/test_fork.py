"""Children of a process with tensors on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from standard import DEVICES


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.skipif(len(DEVICES) == 1, reason="there is no GPU whose driver a child could wait for")
@pytest.mark.timeout(60)
def test_forked_children_do_not_use_the_gpu() -> None:
    program = """
import os, warnings
import aleatron.tensor as at
warnings.simplefilter("ignore", DeprecationWarning)
x = at.ones(3, device="gpu")
later = x + 1
assert (x * 2).tolist() == [2, 2, 2]
if os.fork() == 0:
    for call in (x.numpy, later.numpy, lambda: (x @ x).numpy(), lambda: at.ones(3, device="gpu"), lambda: x.to_device("gpu")):
        try:
            call()
        except RuntimeError as error:
            assert "forked process" in str(error)
        else:
            os._exit(3)
    assert at.sum(at.ones((300, 300)) @ at.ones((300, 300))).item() == 27e6
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.stdout == "0\n", done.stderr
