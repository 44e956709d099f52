/*
 * The texts of charts and of the range picker. Only this folder uses them.
 */

const UNITS: Readonly<Record<string, string>> = { m: 'minutes', h: 'hours', d: 'days' }

export const words = {
  timeRange: 'Time range',
  custom: 'Custom',
  from: 'From',
  until: 'Until',
  apply: 'Apply',
  invalid: 'Choose an end that is after the start.',
  zoomHint: 'Drag to select a time range',
  /** `Last 24 hours` */
  last(text: string): string {
    const [, amount = '', unit = ''] = /^(\d+)(\w)$/.exec(text) ?? []
    const name = UNITS[unit] ?? unit
    return amount === '1' ? `Last ${name.slice(0, -1)}` : `Last ${amount} ${name}`
  },
} as const
