import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkDocumentVector, readDocumentVectors } from './opentool-document-vectors.ts'

const vectors = readDocumentVectors(new URL('vectors/opentool.jsonl', pathToFileURL(`${process.cwd()}/`)))

describe('OpenTool vectors of documents, conversions and names', () => {
  it('finds the vectors', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(50)
  })

  it.each(vectors.map((vector) => [vector.id, vector.why, vector] as const))(
    '%s: %s',
    (_id, _why, vector) => {
      checkDocumentVector(vector)
    },
  )
})
