"""Starts the command in its arguments as a child, and ends as that does. Python closes
descriptors above 2 in children, PMI_FD among them."""

import subprocess
import sys

sys.exit(subprocess.run(sys.argv[1:]).returncode)
