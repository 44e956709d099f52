import type { OpenToolDocument } from './codec-document.ts'
import { type DocumentFinding, OpenToolDocumentError } from './codec-document-finding.ts'
import { type ReadOptions, readDocument } from './codec-document-read.ts'

/** Everything there is to say about a document, given as text, UTF-8 bytes or a value; never throws (OTS-25). */
export function validate(input: unknown, options: ReadOptions = {}): readonly DocumentFinding[] {
  return readDocument(input, options).findings
}

/** The document, with nulls left out and the defaults of the mode filled in; throws one error with all findings. */
export function load(input: string | Uint8Array | object, options: ReadOptions = {}): OpenToolDocument {
  const { document, findings } = readDocument(input, options)
  if (document === undefined) throw new OpenToolDocumentError(findings)
  return document
}

export interface SerializeOptions {
  /** Spaces a level; 0, on one line, unless told. */
  readonly indent?: number
}

/** JSON text that loads as an equal document (OTS-24). */
export function serialize(document: OpenToolDocument, { indent = 0 }: SerializeOptions = {}): string {
  return JSON.stringify(document, undefined, indent)
}
