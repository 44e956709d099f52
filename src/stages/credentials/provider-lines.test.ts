import { describe, expect, it } from 'vitest'
import { providerLines } from './provider-lines.ts'

describe('the config lines for a provider', () => {
  it.each(['github', 'google', 'slack', 'microsoft'])('contain the endpoints of %s', (id) => {
    const text = providerLines(id).join('\n')
    expect(text).toContain(`${id}: {`)
    expect(text).toMatch(/https:\/\/(\S+\.)?(github|google|slack|microsoftonline)\.com/)
    expect(text).not.toContain('example.com')
  })

  it('have a placeholder for the endpoints of an unknown provider, whatever its name', () => {
    const text = providerLines('my-idp').join('\n')
    expect(text).toContain('"my-idp": {')
    expect(text).toContain('process.env.MY_IDP_CLIENT_SECRET')
    expect(text).toContain("issuer: 'https://login.example.com'")
  })
})
