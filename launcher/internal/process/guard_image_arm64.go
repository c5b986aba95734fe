package process

// guardMachine is EM_AARCH64 of the ELF format.
const guardMachine = 183
