"""What the command line and the service ask for besides scans."""
