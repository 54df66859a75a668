"""For tests of your own: scripted faults and a runner that kills real processes."""
