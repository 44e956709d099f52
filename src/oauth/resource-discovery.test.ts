import { describe, expect, it } from 'vitest'
import { discoverResource } from './resource-discovery.ts'

const RESOURCE = 'https://mcp.example/mcp'
const ISSUER = 'https://issuer.example'

/** A resource whose issuer names these methods of PKCE. */
function sendTo(methods: readonly string[] | undefined) {
  const documents = new Map<string, object>([
    [
      'https://mcp.example/.well-known/oauth-protected-resource/mcp',
      { resource: RESOURCE, authorization_servers: [ISSUER] },
    ],
    [
      `${ISSUER}/.well-known/oauth-authorization-server`,
      { issuer: ISSUER, code_challenge_methods_supported: methods },
    ],
  ])
  return async (url: string) => {
    const found = documents.get(url)
    return found === undefined ? new Response('', { status: 404 }) : Response.json(found)
  }
}

describe('PKCE of an issuer that an MCP server names', () => {
  it.each([[undefined], [[]], [['plain']]])(
    'MCP-95: people are not sent to an issuer whose metadata does not name S256: %j',
    async (methods) => {
      const asked = discoverResource(RESOURCE, sendTo(methods), { sendsPeople: true })
      await expect(asked).rejects.toThrow(/https:\/\/issuer\.example.*does not support PKCE with S256/)
    },
  )

  it('MCP-95: an issuer that names S256 is used, and so is any for tokens that no person consents to', async () => {
    const { as } = await discoverResource(RESOURCE, sendTo(['plain', 'S256']), { sendsPeople: true })
    expect(as.issuer).toBe(ISSUER)
    const machine = await discoverResource(RESOURCE, sendTo(undefined), { sendsPeople: false })
    expect(machine.as.issuer).toBe(ISSUER)
  })
})
