# SPDX-License-Identifier: MIT
# The files as strings: const char faults_ptx[], faults_tiles_ptx[].
	.section .rodata
	.globl faults_ptx, faults_tiles_ptx
faults_ptx:
	.incbin FAULTS
	.byte 0
faults_tiles_ptx:
	.incbin FAULTS_TILES
	.byte 0
	.section .note.GNU-stack, "", @progbits
