import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { html, PAGE_STYLE, pageReply } from './html-page.ts'

describe('html', () => {
  it('escapes texts in elements and attributes', () => {
    const text = `<script>"it's" & more`
    expect(html`<p title="${text}">${text}</p>`.text).toBe(
      '<p title="&lt;script&gt;&quot;it&#39;s&quot; &amp; more">&lt;script&gt;&quot;it&#39;s&quot; &amp; more</p>',
    )
    expect(html`${1} of ${2}`.text).toBe('1 of 2')
  })

  it('inserts one or several HTML fragments unescaped', () => {
    const items = ['a', '<b>'].map((item) => html`<li>${item}</li>`)
    expect(html`<ul>${items}</ul>${html`<hr>`}`.text).toBe('<ul><li>a</li><li>&lt;b&gt;</li></ul><hr>')
  })

  it('escapes the title of a page in both places', () => {
    const { body } = pageReply(200, { title: 'a < b', content: html`<p>c</p>` })
    expect(body).toContain('<title>a &lt; b</title>')
    expect(body).toContain('<h1>a &lt; b</h1>\n<p>c</p>\n</main>')
  })
})

describe('the styles of pages', () => {
  it("use the values of the console's tokens", () => {
    const file = join(import.meta.dirname, '../../console/src/styles/tokens.css')
    const [root = ''] = readFileSync(file, 'utf8').split('}')
    const tokens = new Map(
      [...root.matchAll(/--([\w-]+):\s*([^;]+);/g)].map(([, name, value]) => [
        name,
        value?.replace(/\s+/g, ' '),
      ]),
    )
    const [used = ''] = PAGE_STYLE.split('}')
    const found = [...used.matchAll(/--([\w-]+):([^;]+)/g)]
    expect(found.length).toBeGreaterThan(8)
    for (const [, name = '', value] of found) expect([name, value]).toEqual([name, tokens.get(name)])
  })

  it('use no other colours', () => {
    expect(PAGE_STYLE.slice(PAGE_STYLE.indexOf('}'))).not.toMatch(/#[0-9a-f]{3}/i)
  })
})
