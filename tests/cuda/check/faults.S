# SPDX-License-Identifier: MIT
# faults.ptx as a string: const char faults_ptx[].
	.section .rodata
	.globl faults_ptx
faults_ptx:
	.incbin PTX_FILE
	.byte 0
	.section .note.GNU-stack, "", @progbits
