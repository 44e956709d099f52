import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { Markdown } from './markdown.tsx'

const drawn = (text: string): string => {
  const html = renderToStaticMarkup(createElement(Markdown, { text }))
  return /<div class="markdown-text[^"]*">(.*?)<\/div>(?:<button.*)?<\/div>$/s.exec(html)?.[1] ?? html
}

describe('Markdown that others wrote', () => {
  it('shows emphasis, code, lists and tables', () => {
    expect(drawn('Sends *one* **mail** with `to`.')).toBe(
      '<p>Sends <em>one</em> <strong>mail</strong> with <code>to</code>.</p>',
    )
    expect(drawn('- a\n- b')).toContain('<ul><li><p>a</p></li><li><p>b</p></li></ul>')
    expect(drawn('| a | b |\n|---|---|\n| 1 | 2 |')).toContain('<tr><td>1</td><td>2</td></tr>')
    // Its headings do not join the outline of the page.
    expect(drawn('# Title')).toBe('<p class="strong">Title</p>')
  })

  it("shows GitHub's alerts with their word", () => {
    const html = drawn('> [!NOTE]\n> Needs a **token**.')
    expect(html).toMatch(/role="note".*<\/svg>Note<\/p><p>Needs a <strong>token<\/strong>\.<\/p>/s)
    expect(html).not.toContain('[!NOTE]')
    expect(drawn('> [!OTHER] x')).toContain('<blockquote><p>[!OTHER] x</p></blockquote>')
  })

  it.each([
    '<img src=x onerror=alert(1)>',
    '<script>alert(1)</script>',
    'text <b onclick="x">bold</b>',
    '<!-- comment -->',
    '<style>*{display:none}</style>',
  ])('leaves HTML as text: %s', (text) => {
    const html = drawn(text)
    expect(html.replace(/<\/?p>/g, '')).not.toMatch(/<(?!\/?p)/)
    expect(html).toContain('&lt;')
  })

  it.each([
    ['a script', '[here](javascript:alert(1))'],
    ['a script in capitals', '[here](JaVaScRiPt:alert(1))'],
    ['data', '[here](data:text/html,x)'],
    ['a file', '[here](file:///etc/passwd)'],
    ['an address with a password', '[here](https://good.example@evil.example/)'],
    ['a path of this server', '[here](/console/settings)'],
    ['an autolink with a script', '<javascript:alert(1)>'],
  ])('has no link to %s', (_, text) => {
    expect(drawn(text)).not.toContain('href')
  })

  it('follows links to http and https only, shows their host, and sends no referrer', () => {
    expect(drawn('[docs](https://api.example/x)')).toBe(
      '<p><a class="link" href="https://api.example/x" target="_blank" rel="noreferrer noopener nofollow">docs<span class="dim"> (api.example)</span></a></p>',
    )
    // A text that names another host does not hide where the link leads.
    expect(drawn('[https://good.example](http://evil.example)')).toContain('(evil.example)')
  })

  it('loads no image', () => {
    expect(drawn('![a cat](https://evil.example/x.png)')).toBe('<p><span class="soft">[a cat]</span></p>')
  })

  it('spells hidden characters out, folds long texts, and does not hang on deep or huge ones', () => {
    expect(drawn('safe\u202etext')).toContain('safe\\u202etext')
    const html = renderToStaticMarkup(createElement(Markdown, { text: 'line\n\n'.repeat(10) }))
    expect(html).toContain('folded')
    expect(html).toContain('Show more')
    expect(drawn(`${'>'.repeat(500)} deep`)).toContain('…')
    expect(drawn('*'.repeat(200_000))).toContain('<pre>')
  })
})
