import { serve } from 'collet'
import { connect } from 'collet/client'
import { afterEach, expect, it } from 'vitest'
import { LOOPS, SavedState } from './loops.ts'
import { startProvider } from './provider.ts'
import { makeShop } from './shop.ts'

/** Promises in every library: effects happen once for each intention, and results reach the model. */

const MAIL = { name: 'Shop_Mail', input: { to: 'ann@example.com' } }
const closing: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function open(plan: Parameters<typeof startProvider>[0]) {
  const shop = makeShop()
  const options = { store: 'memory:', server: { port: 0 }, log: { level: 'silent' } } as const
  const server = await serve({ tools: shop.tools, ...options })
  const provider = await startProvider(plan)
  closing.push(
    () => server.close(),
    () => provider.close(),
  )
  return {
    shop,
    provider,
    parts: { source: connect(server.url), conversation: 'c1', provider: provider.url },
  }
}

it.each(Object.entries(LOOPS))(
  '%s: a loop that is run again repeats nothing, and intended equal calls all run',
  async (_name, loop) => {
    const { shop, parts } = await open([[MAIL, MAIL], [MAIL]])
    for (const _ of [1, 2]) await loop({ ...parts, saved: new SavedState() })
    expect(shop.effects).toEqual(['mail ann@example.com', 'mail ann@example.com', 'mail ann@example.com'])
  },
)

it.each(Object.entries(LOOPS))(
  '%s: the model gets images, failures and long results',
  async (_name, loop) => {
    const calls = ['Shop_Photo', 'Shop_Fail', 'Shop_Orders'].map((name) => ({ name, input: {} }))
    const { provider, parts } = await open(calls.map((call) => [call]))
    await loop({ ...parts, saved: new SavedState() })
    const [, photo, failed, long] = provider.requests.map(({ body }) =>
      JSON.stringify(body.messages ?? body.input),
    )
    expect(photo).toMatch(/iVBORw0KGgo/)
    expect(photo).toMatch(/\\?"(?:image|image_url|input_image|image-data|file)\\?"/)
    expect(failed).toContain('failed')
    expect(failed).not.toContain('secret detail')
    expect(long).toContain('To read the rest, call read_result')
    expect(long?.length).toBeLessThan(60_000)
  },
)
