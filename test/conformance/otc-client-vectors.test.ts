import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkClientVector, readClientVectors } from './otc-client-vectors.ts'

const vectors = readClientVectors(new URL('vectors/otc.jsonl', pathToFileURL(`${process.cwd()}/`)))

describe('OTC vectors through the client', () => {
  it('finds the client vectors', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(20)
  })

  it.each(vectors.map((vector) => [vector.id, vector.refs.join(' '), vector.desc, vector] as const))(
    '%s (%s): %s',
    async (_id, _refs, _desc, vector) => {
      await checkClientVector(vector)
    },
  )
})
