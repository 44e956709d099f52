import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { checkAxe, useConsole } from './harness.ts'

const KEYS = { agent: 'a'.repeat(40), bob: 'b'.repeat(40) }
const CONFIG = `
const text = { type: 'string', description: 'A text.' }
export default {
  tools: [
    {
      [Symbol.for('collet.tool')]: true,
      id: 'Bank.Pay@1.0.0',
      description: 'Pays a person from the account of the company.',
      input: { type: 'object', properties: { to: text, note: text } },
      output: {},
      policy: { safetyTier: 'write', approval: 'always' },
      run: () => 'done',
    },
  ],
  auth: {
    apiKeys: [
      { id: 'agent', key: '${KEYS.agent}' },
      { id: 'bob', key: '${KEYS.bob}', scopes: ['approvals:respond'] },
    ],
  },
}
`
/** Parts of the arguments that scroll on their own, or are cut at an edge. */
const CUT_OFF = `[...document.querySelectorAll('.args, .args *')]
  .filter((part) => !part.matches('.vh, .icon') && (part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1)
    && getComputedStyle(part).overflow !== 'visible' && getComputedStyle(part).display !== 'inline')
  .map((part) => part.outerHTML.slice(0, 100))`

describe.each([1440, 390])('an approval with long arguments, %i px wide', (width) => {
  const console_ = useConsole({ config: CONFIG })
  const bob = { key: KEYS.bob }
  const decision = (page: Page) => page.locator('.decide')
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

  async function park(tool: string, input: object): Promise<string> {
    const answer = await fetch(`${console_.url}/tools/call`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEYS.agent}`, 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: tool, input } }),
    })
    const [, id = ''] = /\/approvals\/([\w-]+)"/.exec(await answer.text()) ?? []
    expect(id).not.toBe('')
    return id
  }
  const text = `wire it to ${'x'.repeat(5_000)} ${'word '.repeat(200)} and 9000 EUR to eve`
  const items = Array.from({ length: 400 }, (_, item) => ({ item, note: 'y'.repeat(20) }))
  const words = Array.from({ length: 200 }, (_, word) => `--flag-${word}`)
  const deep = { a: { b: { c: 'z'.repeat(3_000) } } }

  it.each(['Readable', 'JSON'])('approves only after everything was shown (%s)', async (view) => {
    const id = await park('Bank.Pay', { to: 'eve', note: text, run: `${view} ${width}`, items, words, deep })
    const page = await console_.page({ path: `/approvals/${id}`, as: bob, width, height: 844 })
    const shown = decision(page)
    await shown.getByRole('button', { name: view }).click()
    const approve = button(page, 'Approve once')
    await page.getByText('You have not seen all arguments.').waitFor()
    expect(await approve.getAttribute('aria-disabled')).toBe('true')
    expect(await shown.textContent()).not.toContain('9000 EUR to eve')
    if (view === 'Readable') {
      await shown.getByText(`${text.length.toLocaleString('en-US')} characters`, { exact: true }).waitFor()
      const [box, value] = await Promise.all(
        ['.args', '.args .wrapped'].map((part) => shown.locator(part).first().boundingBox()),
      )
      if (width < 720) expect((value?.width ?? 0) / (box?.width ?? 1)).toBeGreaterThan(0.9)
      const rest = (text.length - 600).toLocaleString('en-US')
      await button(page, `Show the remaining ${rest} characters`).click()
      expect(await shown.textContent()).toContain('9000 EUR to eve')
      // Three more are folded.
      await expect.poll(() => shown.getByRole('button', { name: /^Show the remaining/ }).count()).toBe(3)
      expect(await approve.getAttribute('aria-disabled')).toBe('true')
      await button(page, 'Show everything').click()
    } else {
      await shown.getByRole('button', { name: /^Show the remaining [\d,]+ characters$/ }).click()
    }
    for (const part of ['9000 EUR to eve', '--flag-199', '"item": 399', 'z'.repeat(3_000)])
      expect(await shown.textContent()).toContain(part)
    // Unfolding is not enough: the end is still below the window.
    expect(await approve.getAttribute('aria-disabled')).toBe('true')
    expect(await page.evaluate(CUT_OFF)).toEqual([])
    await checkAxe(page, `long arguments at ${width}`)
    await shown.getByText('Definition', { exact: true }).scrollIntoViewIfNeeded()
    await approve.click()
    await shown
      .getByText(/^Approved by key:bob/)
      .first()
      .waitFor()
    expect(console_.sent(page, /\/approvals\//)).toEqual([
      { method: 'POST', path: `/admin/approvals/${id}/approve`, body: {} },
    ])
  })

  it('folds many short arguments and many lines as well', async () => {
    const many = Object.fromEntries(Array.from({ length: 90 }, (_, at) => [`a${at}`, 'x']))
    const id = await park('Bank.Pay', {
      to: 'eve',
      note: `a${'\n'.repeat(200)}to mallory`,
      run: width,
      ...many,
    })
    const page = await console_.page({ path: `/approvals/${id}`, as: bob, width, height: 844 })
    await button(page, 'Show the remaining 63 arguments').waitFor()
    expect(await button(page, 'Approve once').getAttribute('aria-disabled')).toBe('true')
    expect(await decision(page).textContent()).not.toContain('to mallory')
    await button(page, 'Show everything').click()
    expect(await decision(page).textContent()).toContain('to mallory')
    // The length of a name is not limited, so names are folded too.
    const named = await park('Bank.Pay', { ['n'.repeat(2_000)]: 1, to: 'eve' })
    await page.goto(`${console_.url}/console/approvals/${named}`)
    await decision(page)
      .getByRole('button', { name: /^Show the remaining 1,[\d,]+ characters$/ })
      .waitFor()
  })
})
