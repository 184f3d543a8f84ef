"""What people run today, as controllers of a simulated fleet. README.md says where each is from."""
