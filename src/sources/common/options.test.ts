import { describe, expect, it } from 'vitest'
import { shownAddress } from './options.ts'

describe('an address that is shown', () => {
  it('has no values of its query, and still is another one for another value', () => {
    const shown = shownAddress('https://a.example/mcp?api_key=top-secret&empty=&api_key=two')
    expect(shown).toMatch(
      /^https:\/\/a\.example\/mcp\?api_key=sha256-[0-9a-f]{8}&empty=&api_key=sha256-[0-9a-f]{8}$/,
    )
    expect(shown).not.toBe(shownAddress('https://a.example/mcp?api_key=other&empty=&api_key=two'))
  })

  it.each(['https://a.example/mcp', 'https://a.example/', 'openapi.json'])('%s stays as it is', (address) => {
    expect(shownAddress(address)).toBe(address)
  })
})
