import type { Page } from 'playwright-core'

export const ROOT_KEY = 'root-key-that-is-long-enough-for-a-test'
export const CLERK_KEY = 'clerk-key-that-is-long-enough-for-a-test'
export const FAR_KEY = 'far-key-that-is-long-enough-for-a-test'
export const HOSTILE = '<img src=x onerror="document.title=1">'

export const CONFIG = `export default {
  tools: [{
    [Symbol.for('collet.tool')]: true,
    id: 'Mail.Send@1.0.0',
    description: 'Sends.',
    input: { type: 'object' },
    output: {},
    policy: { safetyTier: 'pure', scopes: ['mail:send'] },
    run: () => 'sent',
  }],
  toolsets: { mail: { include: ['Mail.*'] } },
  budgets: [{ for: 'principal', window: '1d', calls: 10 }],
  limits: { total: { concurrent: 64 } },
  auth: {
    roles: { writer: { scopes: ['mail:send'] } },
    apiKeys: [
      { id: 'root', key: '${ROOT_KEY}', scopes: ['*'] },
      { id: 'clerk', key: '${CLERK_KEY}', scopes: ['mail:send'] },
      { id: 'far', key: '${FAR_KEY}', tenant: 'acme', scopes: ['audit:read', 'admin:keys'] },
    ],
  },
}`

export const echo = (page: Page): Promise<string> => page.locator('.echo code').innerText()
export const part = (page: Page, name: string) => page.getByRole('region', { name, exact: true })
export const dialog = (page: Page) => page.getByRole('dialog')
export const clipboard = (page: Page): Promise<unknown> => page.evaluate('navigator.clipboard.readText()')

/** Calls the tool as a program does, from outside of the browser. */
export async function callAs(key: string, { url }: { readonly url: string }): Promise<number> {
  const response = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ request: { tool_id: 'Mail.Send', call_id: crypto.randomUUID(), input: {} } }),
  })
  return response.status
}
