//! Where the machine is not hugewise's to change.
