/* SPDX-License-Identifier: MIT
 *
 * Puts a program's PTX into the program, so that it is one file. PTX_FILE comes from the build.
 */
	.section .rodata
	.globl kernels_ptx
	.type kernels_ptx, @object
	.balign 16
kernels_ptx:
	.incbin PTX_FILE
	.byte 0
	.size kernels_ptx, . - kernels_ptx
	.section .note.GNU-stack, "", @progbits
