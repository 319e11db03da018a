'use strict';
// Shows words that the page already holds, and hides lines; it computes nothing.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tip = document.getElementById('tip');
  const hidden = new Set();
  document.documentElement.classList.add('js');

  // The legend: an entry switches everything of its variant off and on.
  for (const button of all('.legend button')) {
    button.addEventListener('click', () => {
      const v = button.dataset.v;
      const off = !hidden.has(v);
      off ? hidden.add(v) : hidden.delete(v);
      button.setAttribute('aria-pressed', String(!off));
      for (const part of all(`main [data-v="${v}"]`)) {
        if (part !== button) part.classList.toggle('off', off);
      }
    });
  }

  const element = (tag, text, className) => {
    const e = document.createElement(tag);
    e.textContent = text;
    if (className) e.className = className;
    return e;
  };

  // What is at place `i` of the chart, best value first as the lines lie above each other.
  const fill = (data, metric, i, places) => {
    const rows = metric.rows[i]
      .map((row, k) => ({ row, name: data.names[k], v: places.get(data.names[k]) }))
      .filter((r) => r.row && !hidden.has(r.v))
      .sort((a, b) => b.row[3] - a.row[3]);
    const n = data.clients[i];
    const table = document.createElement('table');
    for (const { row, name, v } of rows) {
      const tr = table.insertRow();
      tr.append(element('th', name, 'name k' + (v % 9)));
      tr.append(element('td', row[0]), element('td', row[2] || ''), element('td', row[1] || ''));
      tr.cells[1].style.fontWeight = 600;
      tr.cells[3].style.color = 'var(--faint)';
    }
    const head = element('div', '');
    head.append(element('b', n + (n === 1 ? ' client' : ' clients')), ` · ${metric.name}${metric.unit && ', ' + metric.unit}`);
    tip.replaceChildren(head, table);
  };

  const places = new Map(all('.legend button').map((b) => [b.dataset.name, b.dataset.v]));

  for (const figure of all('figure[data-test]')) {
    const data = JSON.parse(document.getElementById('data-' + figure.dataset.test).textContent);
    for (const svg of all('svg.chart', figure)) {
      const metric = data.metrics[svg.dataset.metric];
      const xs = svg.dataset.x.split(' ').map(Number);
      const [top, bottom] = svg.dataset.plot.split(' ');
      const cross = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      cross.setAttribute('class', 'cross');
      let at = -1;

      const leave = () => {
        at = -1;
        tip.hidden = true;
        cross.remove();
        for (const dot of all('circle.at', svg)) dot.classList.remove('at');
      };
      const show = (i) => {
        if (i < 0 || i >= xs.length) return;
        at = i;
        for (const dot of all('circle', svg)) dot.classList.toggle('at', dot.dataset.n === String(data.clients[i]));
        cross.setAttribute('d', `M${xs[i]} ${top}V${bottom}`);
        svg.querySelector('.axis').append(cross);
        fill(data, metric, i, places);
        tip.hidden = false;
        // Beside the line, on the side that has room.
        const box = svg.getBoundingClientRect();
        const scale = box.width / svg.viewBox.baseVal.width;
        const x = box.left + xs[i] * scale;
        const width = tip.offsetWidth;
        const left = x + 14 + width < innerWidth ? x + 14 : Math.max(4, x - 14 - width);
        tip.style.left = left + scrollX + 'px';
        tip.style.top = box.top + scrollY + Number(top) * scale + 'px';
      };

      svg.addEventListener('pointermove', (event) => {
        const box = svg.getBoundingClientRect();
        const x = (event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width);
        let best = 0;
        xs.forEach((value, i) => { if (Math.abs(value - x) < Math.abs(xs[best] - x)) best = i; });
        if (best !== at) show(best);
      });
      svg.addEventListener('pointerleave', leave);
      // The same from the keyboard.
      svg.setAttribute('tabindex', '0');
      svg.addEventListener('focus', () => { if (svg.matches(':focus-visible')) show(xs.length - 1); });
      svg.addEventListener('blur', leave);
      svg.addEventListener('keydown', (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step) { event.preventDefault(); show(at < 0 ? xs.length - 1 : at + step); }
        if (event.key === 'Escape') leave();
      });
    }
  }
})();
