"""For all tests: Triton's kernels run in its interpreter, on tensors of the processor."""

import os

# Triton reads it when it is first imported, which torch may do in any test.
os.environ["TRITON_INTERPRET"] = "1"
