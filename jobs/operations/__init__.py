"""What the command line asks for besides scans: status, control, doctor, plan, show."""
