import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { useConsole } from './harness.ts'

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name })

/** How far the document extends beyond the window, down and to the right. */
const OVERFLOW = `[
  Math.max(0, document.documentElement.scrollHeight - innerHeight),
  Math.max(0, document.documentElement.scrollWidth - innerWidth),
]`

/** Elements that extend beyond the right edge of their column. Text that scrolls or is cut within its own box does not count. */
const BEYOND_COLUMN = `(() => {
  const isCut = (part, column) => {
    for (let box = part.parentElement; box !== column; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== 'visible') return true
    return false
  }
  const main = document.querySelector('main')
  const beyond = [...main.querySelectorAll('.walk-step > div, .have, .sections section')].flatMap((column) => {
    const edge = column.getBoundingClientRect().right + 1
    return [...column.querySelectorAll('*')]
      .filter((part) => part.getBoundingClientRect().right > edge && !isCut(part, column))
      .map((part) => part.tagName + '.' + part.className + ': ' + part.textContent.slice(0, 40))
  })
  const overflowing = [main, ...main.querySelectorAll('.seg, .sec-head')].filter((box) => box.scrollWidth > box.clientWidth)
  return [...beyond, ...overflowing.map((box) => box.tagName + '.' + box.className + ' scrolls sideways')]
})()`

/** Whether the first and the last letter of a name are visible where it does not fit. */
const ENDS_WITHIN = `(() => {
  const clip = document.querySelector('.tool-link .clip.front')
  const [kit, local] = [clip.querySelector('i').firstChild, clip.querySelector('.tool-name').lastChild]
  const edges = clip.getBoundingClientRect()
  return [[kit, 0], [local, local.length - 1]].map(([text, at]) => {
    const range = document.createRange()
    range.setStart(text, at)
    range.setEnd(text, at + 1)
    const letter = range.getBoundingClientRect()
    return letter.width > 0 && letter.left >= edges.left - 1 && letter.right <= edges.right + 1
  })
})()`

/** Cells of the table whose text runs into the next one. */
const BEYOND_CELL = `[...document.querySelectorAll('main th:not([scope=row]), main td')].flatMap((cell) => {
  if (cell.getClientRects().length === 0) return []
  const range = document.createRange()
  range.selectNodeContents(cell)
  const edge = Number.parseFloat(getComputedStyle(cell).paddingRight) - 1
  const isCut = [...cell.querySelectorAll('*')].some((part) => getComputedStyle(part).overflowX !== 'visible')
  return !isCut && range.getBoundingClientRect().right > cell.getBoundingClientRect().right - edge ? [cell.textContent] : []
})`

/** Layout that is measured: space, edges and lines, at common window widths. */
describe('the pages of the console', () => {
  const collet = useConsole({
    config: `export default { tools: [{
      [Symbol.for('collet.tool')]: true,
      id: 'EverythingReferenceOfEverySystem.get_resource_reference@1.0.0',
      description: 'Has a long name.',
      input: { type: 'object' },
      output: {},
      policy: { safetyTier: 'read', egress: 'host-mediated' },
      run: (input) => input,
    }] }`,
  })
  const TOOL = 'EverythingReferenceOfEverySystem.get_resource_reference'

  // Browsers of tests hide their scrollbars, so a second one would not be visible in a screenshot.
  it.each([
    [1280, 800],
    [390, 844],
  ])('scrolls within its pages, never as a whole, at %i by %i', async (width, height) => {
    const page = await collet.page({ path: '/tools', as: 'operator', width, height })
    for (const path of [
      'start',
      'overview',
      'tools',
      `tools/${TOOL}`,
      'calls',
      'approvals',
      'sources',
      'access',
      'access?section=secrets',
      'audit',
      'settings',
    ]) {
      await page.goto(`${collet.url}/console/${path === 'start' ? '' : path}`)
      await heading(page, '').first().waitFor()
      await page.locator('main').waitFor()
      expect(await page.evaluate(OVERFLOW), path).toEqual([0, 0])
    }
  })

  it.each([1600, 1280, 1024, 390])(
    'keeps every part of Start and Settings in its column at %i px',
    async (width) => {
      const page = await collet.page({ path: '/', as: 'operator', width })
      for (const path of ['', '/settings']) {
        await page.goto(`${collet.url}/console${path}`)
        await page.getByRole('group', { name: 'Client' }).getByRole('button').last().waitFor()
        await page.getByRole('button', { name: 'Copy Configuration for Claude Code' }).waitFor()
        expect(await page.evaluate(BEYOND_COLUMN), path).toEqual([])
      }
    },
  )

  it('shows the person on the line of the title even on the smallest phone', async () => {
    const page = await collet.page({ path: '/sources', as: 'operator', width: 360, height: 740 })
    const middles = await Promise.all(
      [heading(page, 'Sources'), page.getByRole('button', { name: /operator/ })].map(async (part) => {
        const { y, height } = (await part.boundingBox()) ?? { y: Number.NaN, height: 0 }
        return y + height / 2
      }),
    )
    expect(Math.abs((middles[0] ?? 0) - (middles[1] ?? 0))).toBeLessThan(4)
    expect(middles[0]).toBeLessThan(48)
    await page.getByRole('textbox', { name: 'Add a source' }).waitFor()
  })

  it('counts the tools on every page without reading them all', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.reload()
    await page.getByRole('link', { name: 'Tools 1 tool' }).waitFor()
    expect(asked).not.toContain('/admin/tools')
  })

  it.each([1440, 1024])('keeps every text of the catalog in its column at %i px', async (width) => {
    const page = await collet.page({ path: '/tools', width })
    await page.getByRole('link', { name: TOOL }).waitFor()
    expect(await page.evaluate(BEYOND_CELL)).toEqual([])
  })

  it('keeps the titles of the columns of Calls in their columns', async () => {
    const body = JSON.stringify({ request: { tool_id: TOOL, input: {} } })
    const headers = { 'content-type': 'application/json' }
    await (await fetch(`${collet.url}/tools/call`, { method: 'POST', headers, body })).text()
    const page = await collet.page({ path: '/calls', as: 'operator' })
    await page.locator('tr[data-record]').first().waitFor()
    expect(await page.evaluate(BEYOND_CELL)).toEqual([])
  })

  it('cuts the name of a tool at its start, and shows all of it in the tooltip', async () => {
    const page = await collet.page({ path: '/tools', width: 360, height: 740 })
    await page.getByRole('link', { name: TOOL }).waitFor()
    expect(await page.evaluate(ENDS_WITHIN)).toEqual([false, true])
    expect(await page.locator('.tool-link .clip.front').getAttribute('title')).toBe(TOOL)
  })
})
