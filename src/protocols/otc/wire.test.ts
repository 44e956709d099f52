import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { callIdToHeader } from '#protocols/call-wire'
import { isSupportedVersion, schemaFamily } from './wire.ts'

const ARCADE = 'https://github.com/ArcadeAI/OpenToolCalling'
const OTC = 'https://github.com/OpenToolCalling/Specification'
const OXP = 'https://github.com/OpenExecProtocol/Specification'

describe('schemaFamily', () => {
  it.each([
    ['urn:oxp:1.0', 'oxp'],
    ['otc://1.0', 'otc'],
    [`${ARCADE}/tree/main/specification/http/1.0/openapi.json`, 'arcade'],
    [`${ARCADE}/blob/59c07fa/specification/http/1.0/openapi.json`, 'arcade'],
    [`${OTC}/tree/main/specification/http/1.0/openapi.json`, 'otc'],
    [`${OTC}/tree/main/spec/http/1.0/openapi.json`, 'otc'],
    [`${OXP}/tree/main/specification/http/1.0/openapi.json`, 'oxp'],
    [`${OXP}/raw/main/spec/http/1.0/openapi.json`, 'oxp'],
  ])('OTC-12, OTC-13, OTC-14, OTC/C-16: %s has the family %s', (schemaId, family) => {
    expect(schemaFamily(schemaId)).toBe(family)
  })

  it.each([
    'urn:oxp:1.1',
    'URN:OXP:1.0',
    'otc://1.0/',
    `${OTC}/tree/main/spec/http/1.1/openapi.json`,
    `${OTC}/tree/main/spec/http/1.0/openapi.json\n`,
    'https://github.com/Other/Specification/tree/main/spec/http/1.0/openapi.json',
    'http://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json',
  ])('OTC-18, OTC-19: %j has no family', (schemaId) => {
    expect(schemaFamily(schemaId)).toBeUndefined()
  })
})

describe('isSupportedVersion', () => {
  it('OTC-22: accepts the sample and the semantic version', () => {
    expect(['1.0', '1.0.0'].every(isSupportedVersion)).toBe(true)
    expect(['1', '1.0.1', 'v1.0', ' 1.0', '01.0'].some(isSupportedVersion)).toBe(false)
  })
})

describe('callIdToHeader', () => {
  it('does not change a UUID', () => {
    expect(callIdToHeader('123e4567-e89b-12d3-a456-426614174000')).toBe(
      '123e4567-e89b-12d3-a456-426614174000',
    )
  })

  it('rule 6: any id becomes visible ASCII and decodes to itself', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (callId) => {
        const header = callIdToHeader(callId)
        expect(header).toMatch(/^[\x21-\x7e]*$/)
        expect(decodeURIComponent(header)).toBe(callId)
      }),
    )
  })

  it('never lets an id end the header line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (callId) => !/[\r\n\0]/.test(callIdToHeader(callId))),
    )
    expect(callIdToHeader('a\r\nSet-Cookie: x')).toBe('a%0D%0ASet-Cookie:%20x')
    expect(callIdToHeader('\ud800')).toBe('%EF%BF%BD')
  })
})
