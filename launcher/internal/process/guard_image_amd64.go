package process

// guardMachine is EM_X86_64 of the ELF format.
const guardMachine = 62
