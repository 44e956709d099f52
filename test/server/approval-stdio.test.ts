import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it } from 'vitest'
import { pagesTokenFileIn } from '#config/to-settings'
import { startStdio } from '#server/start-stdio'
import { sampleTool } from '../contracts/samples.ts'
import { sqliteSettings } from '../test-settings.ts'

const INITIALIZE = {
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
}
const PAY = { method: 'tools/call', params: { name: 'Bank_Pay', arguments: { amount: 5 } } }
const ADDRESS = /http:\/\/127\.0\.0\.1:\d+\/approvals\/[\w-]+/

const ending: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end()
})

/** A client that starts `collet mcp` has only two streams and a user who reads the text of a result. */
describe('approvals of collet mcp', () => {
  const ran: unknown[] = []
  const pay = sampleTool('Bank.Pay@1.0.0', (input) => ran.push(input), { policy: { approval: 'always' } })

  function openProject() {
    const settings = sqliteSettings({ tools: [pay] })
    ending.push(() => rmSync(settings.dataFolder, { recursive: true, force: true }))
    return settings
  }

  async function startClient(settings: ReturnType<typeof openProject>) {
    const input = new PassThrough()
    const waiting = new Map<number, (text: string) => void>()
    const server = await startStdio(settings, {
      apiKey: undefined,
      graceMs: 500,
      write(line) {
        const { id, result } = JSON.parse(line)
        waiting.get(id)?.(result?.content?.[0]?.text ?? '')
      },
    })
    const served = server.serve(input)
    let last = 0
    const ask = async (message: object): Promise<string> => {
      last += 1
      const id = last
      const answer = new Promise<string>((resolve) => waiting.set(id, resolve))
      input.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...message })}\n`)
      return await answer
    }
    const end = async (): Promise<void> => {
      input.end()
      await served
      await server.close()
    }
    ending.push(end)
    await ask(INITIALIZE)
    return { pay: () => ask(PAY), end }
  }

  /** Opens an address in the text as the user who can read the start token. */
  async function decide(dataFolder: string, text: string): Promise<string> {
    const address = new URL(ADDRESS.exec(text)?.[0] ?? '')
    const token = readFileSync(pagesTokenFileIn(dataFolder, address.origin), 'utf8').trim()
    const made = await fetch(`${address.origin}/admin/sign-in`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: '{}',
    })
    const { url } = (await made.json()) as { readonly url: string }
    const entered = await fetch(url, { redirect: 'manual' })
    const cookie = entered.headers.get('set-cookie')?.split(';', 1)[0] ?? ''
    // The cookie alone gives no access: the address after the redirect carries the token of the session.
    const place = new URL(entered.headers.get('location') ?? '', address)
    address.searchParams.set('session', place.searchParams.get('session') ?? '')
    const page = await (await fetch(address, { headers: { cookie } })).text()
    const [, action = ''] = /formaction="([^"]+\/approve\?[^"]+)"/.exec(page) ?? []
    const done = await fetch(`${address.origin}${action}`, {
      method: 'POST',
      headers: { cookie, origin: address.origin },
    })
    return await done.text()
  }

  it('have an address to decide at, and the model is advised to call again with the same arguments', async () => {
    const settings = openProject()
    const client = await startClient(settings)
    const text = await client.pay()
    expect(text).toContain('call again with exactly the same arguments.')
    const address = ADDRESS.exec(text)?.[0] ?? ''
    expect((await fetch(`${address}/status`)).status).toBe(200)
    expect(await decide(settings.dataFolder, text)).toContain('You approved this call')
    const before = ran.length
    await client.pay()
    expect(ran.slice(before)).toEqual([{ amount: 5 }])
  })

  it('of several clients on one store are served by each of them, and end with it', async () => {
    const settings = openProject()
    const first = await startClient(settings)
    const second = await startClient(settings)
    const [one, other] = [await first.pay(), await second.pay()]
    const [here, there] = [ADDRESS.exec(one)?.[0] ?? '', ADDRESS.exec(other)?.[0] ?? '']
    expect(new URL(here).port).not.toBe(new URL(there).port)
    const token = pagesTokenFileIn(settings.dataFolder, new URL(here).origin)
    await first.end()
    ending.splice(ending.indexOf(first.end), 1)
    await expect(fetch(here)).rejects.toThrow()
    expect(() => readFileSync(token)).toThrow()
    // An approval that waits at the first is decided at the second.
    expect(await decide(settings.dataFolder, other)).toContain('You approved this call')
    const before = ran.length
    await second.pay()
    expect(ran.length).toBe(before + 1)
  })

  it('open no port for a client whose calls need no approval', async () => {
    const settings = openProject()
    await startClient(settings)
    expect(readdirSync(settings.dataFolder).filter((name) => name.startsWith('pages-token'))).toEqual([])
  })
})
