"""The test cases of the contract, a file for each subject."""
