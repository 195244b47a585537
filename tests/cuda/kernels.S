# SPDX-License-Identifier: MIT
# kernels.ptx as a string: const char kernels_ptx[].
	.section .rodata
	.globl kernels_ptx
kernels_ptx:
	.incbin PTX_FILE
	.byte 0
	.section .note.GNU-stack, "", @progbits
