import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { useConsole } from './harness.ts'
import { form } from './tool-fixture.ts'

/** Makes the text after it run from right to left. */
const TURN = '\u202e'
const TURNED = `file${TURN}gpj.exe`
const SPELLED = 'file\\u202egpj.exe'

/** A source whose tool has a direction character in every text; it is held until an operator accepts it. */
const CONFIG = `const turned = ${JSON.stringify(TURNED)}
const custom = {
  type: 'custom', kind: 'mcp',
  open: (key) => ({
    key, type: 'custom', kind: 'mcp',
    discover: async () => ({
      identity: { origin: key }, warnings: [],
      tools: [{
        nativeName: 'send',
        title: 'Title ' + turned, description: 'Description ' + turned, tags: ['tag'],
        inputSchema: {
          type: 'object', description: 'Whole ' + turned,
          properties: {
            ['name ' + turned]: { type: 'string', title: 'Label ' + turned, description: 'About ' + turned, default: 'Default ' + turned },
            choice: { enum: ['Choice ' + turned, 'plain'], default: 'Choice ' + turned },
            named: { oneOf: [{ const: 'a', title: 'Named ' + turned }, { const: 'b', title: 'plain' }] },
            ['many ' + turned]: { type: 'array', uniqueItems: true, items: { enum: ['Item ' + turned, 'plain'] } },
            ['yes ' + turned]: { type: 'boolean' },
            ['group ' + turned]: { type: 'object', description: 'Group ' + turned, properties: { ['inner ' + turned]: { type: 'string' } } },
            ['list ' + turned]: { type: 'array', items: { type: 'string' } },
            ['either ' + turned]: { anyOf: [{ type: 'string', title: 'First ' + turned }, { type: 'number' }] },
          },
          examples: [{ choice: 'Choice ' + turned }],
        },
        outputSchema: { type: 'string', description: 'Output ' + turned }, policy: { safetyTier: 'write' }, binding: {},
      }, {
        nativeName: 'plain', description: 'Is let in at first sight.',
        inputSchema: { type: 'object', properties: {} }, outputSchema: {}, policy: { safetyTier: 'write' }, binding: {},
      }],
    }),
    invoke: async () => turned,
    health: () => ({ state: 'ready' }),
    close: async () => undefined,
  }),
}
export default { sources: { Turned: custom } }`

/** Texts and labels of the page that contain a raw direction character, except for input fields. */
const TURNED_TEXTS = String.raw`(() => {
  const turns = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/
  const shown = [...document.querySelectorAll('title, body *:not(script, style, textarea)')]
  return shown.flatMap((element) => [
    ...[...element.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ nodeValue }) => nodeValue),
    ...['aria-label', 'title', 'placeholder', 'alt'].map((name) => element.getAttribute(name) ?? ''),
  ]).filter((text) => turns.test(text))
})()`

const turnedTexts = (page: Page): Promise<unknown> => page.evaluate(TURNED_TEXTS)

/** Whether the name of a field is left of its value, and neither is split. */
const NAME_BEFORE_VALUE = `(() => {
  const pre = [...document.querySelectorAll('pre')].find(({ textContent }) => textContent.includes('שם'))
  const places = ['שם', 'יוסף'].map((word) => {
    const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const at = node.nodeValue.indexOf(word)
      if (at === -1) continue
      const range = document.createRange()
      range.setStart(node, at)
      range.setEnd(node, at + word.length)
      return range.getBoundingClientRect()
    }
  })
  return places[0].right < places[1].left
})()`

/** The direction of each element that shows a text which begins from right to left. */
const DIRECTIONS = `(() => {
  const places = [...document.querySelectorAll('main *')].filter(
    ({ childElementCount, textContent }) => childElementCount === 0 && /^[\\u0590-\\u05ff]/.test(textContent),
  )
  const found = Object.groupBy(places, ({ textContent }) => textContent)
  return Object.fromEntries(Object.entries(found).map(([text, all]) => [text, all.map((place) => getComputedStyle(place).direction)]))
})()`

describe('text from right to left', () => {
  const collet = useConsole({
    config: `export default { tools: [{
      [Symbol.for('collet.tool')]: true, id: 'Mail.Send@1.0.0', description: 'שולח הודעה אל Slack.',
      input: { type: 'object', properties: { to: { type: 'string', description: 'הנמען של ההודעה ב-Slack.' } } },
      output: {}, policy: { safetyTier: 'read' }, run: () => ({ 'שם': 'יוסף' }),
    }] }`,
  })

  it('keeps its own order, and names in JSON stay before their values', async () => {
    const page = await collet.page({ path: '/tools/Mail.Send', as: 'operator' })
    await form(page)
    const shown = await page.evaluate(DIRECTIONS)
    expect(shown).toEqual({ 'שולח הודעה אל Slack.': ['rtl'], 'הנמען של ההודעה ב-Slack.': ['rtl', 'rtl'] })
    await page.getByRole('button', { name: /^Run/ }).click()
    await page.getByRole('region', { name: 'Result' }).getByText('יוסף').first().waitFor()
    expect(await page.evaluate(NAME_BEFORE_VALUE)).toBe(true)
  })
})

describe('direction characters', () => {
  const collet = useConsole({ config: CONFIG })
  const open = (path: string) => collet.page({ path, as: 'operator', mayComplain: [/40[04]/] })

  it.each([
    ['a tool that does not exist', `/tools/${encodeURIComponent(TURNED)}`, 'There is no such tool'],
    ['a call that does not exist', `/calls/${encodeURIComponent(TURNED)}`, 'The call could not be shown'],
    ['a search for tools', `/tools?q=${encodeURIComponent(TURNED)}`, 'No tool matches'],
    ['a search for calls', `/calls?q=${encodeURIComponent(`tool:${TURNED}`)}`, 'No call'],
  ])('in the address of %s are spelled out', async (_, path, heading) => {
    const page = await open(path)
    await page.getByText(heading).first().waitFor()
    await page.getByText(SPELLED).first().waitFor()
    expect(await turnedTexts(page)).toEqual([])
  })

  it('of a tool that was accepted although suspicious are spelled out wherever its texts are shown', async () => {
    const { pins } = JSON.parse(await (await collet.admin('/admin/pins')).text())
    expect(pins).toContainEqual(expect.objectContaining({ tool: 'Turned.send', state: 'held' }))
    await collet.command('pins', 'accept', 'Turned.send')
    const catalog = await open('/tools')
    await catalog.getByText(`Description ${SPELLED}`).waitFor()
    expect(await turnedTexts(catalog)).toEqual([])

    const page = await open('/tools/Turned.send')
    await form(page)
    for (const part of ['Title', 'Description', 'name', 'About', 'Output'])
      await page.getByText(`${part} ${SPELLED}`).first().waitFor()
    expect(await turnedTexts(page)).toEqual([])
    const schemas = page.getByRole('region', { name: 'Schemas' })
    for (const view of ['JSON Schema', 'Model']) {
      await schemas.getByRole('button', { name: view }).click()
      await schemas.getByRole('region').getByText('Whole').first().waitFor()
      expect(await turnedTexts(page)).toEqual([])
    }
    await page.getByRole('button', { name: /^Run/ }).click()
    await page.getByRole('region', { name: 'Result' }).getByText(SPELLED).first().waitFor()
    expect(await turnedTexts(page)).toEqual([])

    // Why a request was rejected repeats names and values of the schema.
    const body = { request: { tool_id: 'Turned.send', input: { choice: 'other', [`name ${TURNED}`]: 1 } } }
    const headers = { 'content-type': 'application/json' }
    await fetch(`${collet.url}/tools/call`, { method: 'POST', headers, body: JSON.stringify(body) })
    const rejected = await open('/calls?q=status%3Arejected')
    await rejected.getByText(SPELLED).first().waitFor()
    expect(await turnedTexts(rejected)).toEqual([])
  })
})
