import { createElement } from 'react'
import { renderToString } from 'react-dom/server'
import { expect, it } from 'vitest'
import { Filter } from './menu.tsx'

it('a filter that is set shows the labels of its values without counting its options', () => {
  let countings = 0
  const html = renderToString(
    createElement(Filter, {
      label: 'Source',
      values: ['Gmail'],
      labelOf: (value) => `${value} (this config)`,
      options: () => {
        countings += 1
        return [{ value: 'Gmail', count: 3 }]
      },
      onChange: () => undefined,
    }),
  )
  expect(html).toContain('Gmail (this config)')
  expect(countings).toBe(0)
})
