import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { useConsole } from './harness.ts'

const CONFIG = `
export default {
  log: { level: 'silent' },
  tools: Array.from({ length: 900 }, (_, at) => ({
    [Symbol.for('collet.tool')]: true,
    id: 'Kit.Tool' + String(at).padStart(3, '0') + '@1.0.0',
    description: 'Does thing number ' + at + '.',
    input: { type: 'object' },
    output: {},
    policy: { safetyTier: 'read' },
    run: () => at,
  })),
}
`
const CALLS = 260
const focusedName = (page: Page) =>
  page.evaluate(
    'document.activeElement?.querySelector(".tool-name")?.textContent ?? document.activeElement?.tagName',
  )

describe('Back to a long list', () => {
  const collet = useConsole({ config: CONFIG })
  beforeAll(async () => {
    for (let at = 0; at < CALLS; at += 1)
      await fetch(`${collet.url}/tools/call`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ request: { tool_id: `Kit.Tool${String(at).padStart(3, '0')}`, input: {} } }),
      })
  })

  it.each([1280, 390])('keeps the position and the focus in the catalog, %i px wide', async (width) => {
    const page = await collet.page({ path: '/tools', as: 'operator', width })
    await page.getByText('Kit.Tool000').first().waitFor()
    await page.evaluate('document.getElementById("main").scrollTo(0, 20000)')
    const row = page.locator('a.tool-link').nth(8)
    await expect.poll(() => row.innerText()).not.toContain('Tool008')
    const name = (await row.locator('.tool-name').innerText()).trim()
    await row.scrollIntoViewIfNeeded()
    const before = await row.boundingBox()
    await row.click()
    await page.waitForURL('**/console/tools/**')
    await page.goBack()
    await page.waitForURL('**/console/tools')
    await expect.poll(() => focusedName(page)).toBe(name)
    const after = await page.locator('a.tool-link:focus').boundingBox()
    expect(Math.abs((after?.y ?? 0) - (before?.y ?? 0))).toBeLessThan(100)
    // A link, unlike Back, starts at the top.
    await page.locator('a.tool-link:focus').press('Enter')
    await page.getByRole('button', { name: /^Run/ }).waitFor()
    await page
      .getByRole('link', { name: /^Tools/ })
      .first()
      .click()
    await page.getByText('Kit.Tool000').first().waitFor()
    expect(await page.evaluate('document.getElementById("main").scrollTop')).toBe(0)
  })

  it('keeps the position and the focus in Calls, after older calls were loaded and new ones arrived', async () => {
    const page = await collet.page({ path: '/calls', as: 'operator' })
    const list = page.locator('.calls-list')
    await page
      .getByText(`Kit.Tool${CALLS - 1}`)
      .first()
      .waitFor()
    const target = page.locator('tr[data-record]').filter({ hasText: 'Kit.Tool040' })
    await expect
      .poll(async () => {
        await list.evaluate((element) => element.scrollTo(0, element.scrollHeight))
        return await page.getByText('Kit.Tool000').count()
      })
      .toBeGreaterThan(0)
    await expect
      .poll(async () => {
        await list.evaluate((element) => element.scrollBy(0, -300))
        return await target.count()
      })
      .toBe(1)
    await target.locator('a').click()
    const before = await target.boundingBox()
    await page.getByRole('link', { name: 'Open page' }).click()
    await page.getByRole('heading', { name: 'Timeline' }).waitFor()
    await fetch(`${collet.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: 'Kit.Tool899', input: {} } }),
    })
    await page.goBack()
    await expect.poll(() => focusedName(page)).toBe('Kit.Tool040')
    const after = await target.boundingBox()
    expect(Math.abs((after?.y ?? 0) - (before?.y ?? 0))).toBeLessThan(60)
  })
})
