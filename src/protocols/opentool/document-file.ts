import { readFile } from 'node:fs/promises'
import type { OpenToolDocument } from './codec-document.ts'
import { load } from './codec-document-load.ts'
import type { ReadOptions } from './codec-document-read.ts'

export interface LoadFileOptions extends ReadOptions {
  readonly signal?: AbortSignal
}

/** `load` for a file (OTS-25). Rejects with the file system's error if the file cannot be read. */
export async function loadFile(path: string | URL, options: LoadFileOptions = {}): Promise<OpenToolDocument> {
  const { signal, ...reading } = options
  return load(await readFile(path, signal === undefined ? {} : { signal }), reading)
}
