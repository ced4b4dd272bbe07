"""What results look like to models."""
