import sys

# Absolute, because spark-submit runs this file by itself.
from hugewise_fleet.cli import main

sys.exit(main())
