"""GDP in closed form against printed digits, and the limit theorem's claim that it is no bound."""

import math

import pytest
from scipy.stats import norm

from dpcore import gdp
from dpcore.accountants.gdp import GDPAccountant, GDPCLTAccountant, mu_clt
from dpcore.accounting import make
from dpcore.calibrate import sampled_gaussian
from dpcore.events import Adjacency, Gaussian, PureDP, UnsupportedEvent
from dpcore.gdp import delta_gdp, eps_gdp, mu_gdp, mu_of_pure_dp, sigma_gaussian
from tests.dpcore.oracles import least_error_sum

MNIST = 256 / 60000


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 1.993091), (1.0, 4.377178), (2.0, 9.997256)])
def test_epsilon_of_mu_at_1e_5(mu, epsilon):
    """GDP dual (Dong, Roth & Su 2022, Corollary 1), six printed decimals."""
    assert eps_gdp(mu, 1e-5) == pytest.approx(epsilon, abs=5.1e-7)
    assert delta_gdp(eps_gdp(mu, 1e-5), mu) <= 1e-5
    assert mu_gdp(eps_gdp(mu, 1e-5), 1e-5) == pytest.approx(mu, rel=1e-11)


def test_delta_of_unit_gaussian():
    assert delta_gdp(1.0, 1.0) == pytest.approx(0.126937, abs=5e-7)


@pytest.mark.parametrize(
    ("epsilon", "ratio"), [(0.1, 30.749566), (0.5, 7.031827), (1, 3.730632), (2, 1.993812), (10, 0.499889)]
)
def test_analytic_gaussian_noise(epsilon, ratio):
    """sigma / sensitivity at delta 1e-5: Balle & Wang (2018)."""
    assert sigma_gaussian(epsilon, 1e-5) == pytest.approx(ratio, abs=5.1e-7)


@pytest.mark.parametrize(
    ("noise", "rate", "epochs", "delta", "mu", "epsilon"),
    [
        (1.3, MNIST, 15, 1e-5, 0.2273, 0.8345),
        (1.1, MNIST, 60, 1e-5, 0.5736, 2.3243),
        (0.7, MNIST, 45, 1e-5, 1.1339, 5.0662),
        (0.6, MNIST, 62, 1e-5, 1.9975, 9.9819),
        (0.55, MNIST, 68, 1e-5, 2.7608, 14.9836),
        (0.5, MNIST, 100, 1e-5, 4.7821, 31.1170),
        (0.55, 256 / 29305, 18, 1e-5, 2.0324, 10.1975),  # Adult
        (0.56, 512 / 25000, 9, 1e-5, 2.0705, 10.4341),  # IMDb
        (0.6, 1 / 80, 20, 1e-6, 1.9419, 10.6125),  # MovieLens
    ],
)
def test_tables_1_to_4_of_bu_2020(noise, rate, epochs, delta, mu, epsilon):
    found = mu_clt(rate, noise, epochs / rate)
    assert found == pytest.approx(mu, abs=5.1e-5)
    assert eps_gdp(found, delta) == pytest.approx(epsilon, abs=5.1e-5)


def noise_for_mu_clt(mu, rate, steps):
    """The noise multiplier whose `mu_clt` is `mu`: equation 8."""
    return 1 / math.sqrt(math.log1p((mu / rate) ** 2 / steps))


@pytest.mark.parametrize(
    ("epsilon", "epochs", "mu", "noise"), [(1.34, 20, 0.34967, 1.0606), (8.68, 70, 1.78198, 0.63839)]
)
def test_refined_noise_of_bu_2020(epsilon, epochs, mu, noise):
    """Equations 7 and 8."""
    found = mu_gdp(epsilon, 1e-5)
    assert found == pytest.approx(mu, abs=5.1e-6)
    # The second was printed with a digit more than the first.
    assert noise_for_mu_clt(found, MNIST, epochs / MNIST) == pytest.approx(noise, abs=5.1e-5 if noise > 1 else 5.1e-6)


@pytest.mark.parametrize(("noise", "steps"), [(1.3, 3516), (1.1, 14063), (0.7, 10547), (0.6, 14532), (0.55, 15938)])
def test_the_limit_lies_below_the_certified_lower_bound(noise, steps):
    """Why its status is asymptotic: it is no upper bound on Table 1's own rows."""
    event = sampled_gaussian(noise, MNIST, steps)
    limit = GDPCLTAccountant().compose(event).epsilon(1e-5)
    assert limit < make("pld", Adjacency.ADD_REMOVE).compose(event).epsilon_lower(1e-5)


def test_gaussians_add_up_in_squares_and_replacing_doubles():
    accountant = GDPAccountant().compose(Gaussian(noise_multiplier=3.0), 4).compose(Gaussian(noise_multiplier=1.5), 1)
    assert accountant.mu == pytest.approx(math.sqrt(4 / 9 + 4 / 9))
    replaced = GDPAccountant(Adjacency.REPLACE_ONE).compose(Gaussian(noise_multiplier=3.0))
    assert replaced.mu == pytest.approx(2 / 3)


def test_pure_dp_is_covered_by_its_mu_everywhere():
    """G_mu below the curve of (epsilon, 0)-DP: at the kink, and in delta at every epsilon."""
    for epsilon in (1e-3, 0.1, 1.0, 5.0):
        mu = mu_of_pure_dp(epsilon)
        for point in (0.0, epsilon / 2, 0.99 * epsilon):
            # Delta of randomised response: (e^epsilon - e^point) / (1 + e^epsilon).
            exact = (math.exp(epsilon) - math.exp(point)) / (1 + math.exp(epsilon))
            assert delta_gdp(point, mu) >= exact * (1 - 1e-9)
    assert GDPAccountant().compose(PureDP(epsilon=1.0)).mu > 1.0  # mu = epsilon would under-charge


def test_what_no_theorem_covers_is_refused():
    event = sampled_gaussian(1.0, 0.1, 5)
    with pytest.raises(UnsupportedEvent, match="without sampling"):
        GDPAccountant().compose(event)
    with pytest.raises(UnsupportedEvent, match="add-remove only"):
        GDPCLTAccountant(Adjacency.REPLACE_ONE).compose(event)


# Trade-off functions against Bu et al. 2020 and closed forms.


def test_least_error_sums_of_table_1_row_2():
    mu = 256 / 60000 * math.sqrt(14063 * math.expm1(1 / 1.1**2))
    assert least_error_sum(gdp.gaussian_tradeoff(mu)) == pytest.approx(2 * norm.cdf(-mu / 2), abs=1e-9)
    assert least_error_sum(gdp.gaussian_tradeoff(mu)) == pytest.approx(0.774, abs=5e-4)
    # The paper prints .776, from a rounded mu.
    assert least_error_sum(gdp.gaussian_tradeoff(0.57)) == pytest.approx(0.776, abs=5e-4)
    ma = least_error_sum(gdp.dp_tradeoff(3.01, 1e-5))
    assert ma == pytest.approx(0.0940, abs=5e-5)
    assert ma == pytest.approx(2 * (1 - 1e-5) / (1 + math.exp(3.01)), abs=1e-9)
